"""An agent that buys after a person said yes."""
