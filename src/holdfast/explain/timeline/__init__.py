"""Timeline of events: merged ranges, aligned clocks, components, occurrences, cause chains, lifetimes and bursts. Pure.

Never does: diagnose. `diagnose` matches signatures against the timeline.
"""
