"""The pages: a blueprint whose views are imported by the first request, never by a child's boot.

`blueprint` lists the routes; `access`, `csrf` and `headers` guard them; `views`, `fragments` and
`actions` answer; `job_list`, `job_page` and `log_panel` say what a template shows.
"""

from __future__ import annotations

from .blueprint import check_collision, collisions, make_blueprint, register

__all__ = ["check_collision", "collisions", "make_blueprint", "register"]
