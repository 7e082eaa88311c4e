"""From the logs of every system involved to what happened, with the lines that say so.

    inputs → split → sweep (Spark) → events → dated → correlated → diagnosed → told

What runs on Spark finds records and events in bytes; what it returns is bounded, whatever the size of the logs. All that comes
after works on that, on the driver, and is pure: the same input gives the same answer. `library/` holds what is known of other
systems, as declarations: what their lines look like, what these mean, what follows from what. Nothing here changes anything,
asks the network for anything but the files that were named, or guesses: a chain ends where its evidence does.
"""
