"""Bytes of jobs' files, in a folder that the hosts share: `JOBRUNNER_FILES_DIR`."""
