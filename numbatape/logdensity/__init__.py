"""The batch program ``numbatape``: a log-density and its gradient over files of draws."""
