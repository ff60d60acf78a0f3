"""Write the training's reports into its run folder: metrics, samples, heartbeats."""
