"""The programs of acsylla: asyncio over the C++ driver."""
