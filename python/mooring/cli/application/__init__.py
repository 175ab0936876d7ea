"""Commands that ask a running application for something."""
