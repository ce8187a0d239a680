"""A client of a copy by a plan, which tests run in a process of its own (see crew.py)."""

from __future__ import annotations

import os
import traceback
from pathlib import Path
from typing import Any

import hyperslab as hs
from crew import Crew
from hyperslab._copy import run as copy_run

# How clients end, by exit code. 0: the copy is finished. 1: another error.
SUPERSEDED, IN_THE_WAY, STORE_FAILED = 10, 11, 12


def run_plan(plan: hs.CopyPlan, folder: Path | None, note: Path, options: dict[str, Any]) -> None:
    """The program of a client. Its exit code says how the run ended, `note` why it failed."""
    code = 0
    # Seconds that a client waits for one that holds the lock. That one may be stopped.
    copy_run._WAIT = 2.0

    def begun(*_: object) -> None:
        note.with_suffix(".begun").touch()

    try:
        plan.run(None if folder is None else Crew(folder), resume=True, progress=begun, **options)
    except hs.errors.SupersededError:
        code = SUPERSEDED
    except hs.errors.DestinationError as error:
        code = IN_THE_WAY
        note.write_text(str(error))
    except hs.errors.StoreError:
        code = STORE_FAILED
        note.write_text(traceback.format_exc())
    except BaseException:
        code = 1
        note.write_text(traceback.format_exc())
    os._exit(code)
