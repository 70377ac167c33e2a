"""Tables in parts, for engines that run tasks in many processes."""
