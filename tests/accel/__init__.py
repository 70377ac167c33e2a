"""The accelerator in the environment of a driver, which the tests find by its distribution."""
