"""Tests of the accelerator, which run in the environment of one of the drivers."""
