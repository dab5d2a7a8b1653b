"""gunicorn for an application that starts jobs: `gunicorn --config gunicorn.conf.py …`."""

bind = "127.0.0.1:8000"
workers = 2

# "sync" and "gevent" are as good; see docs/deploying.md for what differs.
worker_class = "gthread"
threads = 4

# Above JOBRUNNER_ACK_TIMEOUT (10 seconds): a sync worker is silent while jobs.start waits.
timeout = 30
graceful_timeout = 30

# Workers may be replaced at any time. Their jobs do not notice.
max_requests = 1000
max_requests_jitter = 100

# Off, so that a reload (HUP) loads new code. On, the factory must not start jobs.
preload_app = False
