"""What runs and hosts cost: prices, shares of a box, sums by currency. Pure: no store, file, host or clock is read here."""
