"""Who may open the page: login, sessions, the guard in front of everything, and throttled guesses."""
