"""Sub-tapes: functions that are traced once for each signature, and called by one instruction."""
