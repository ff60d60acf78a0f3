"""armada's training payload: TRL's SFTTrainer under `accelerate launch`, configured by one spec.json.

It imports neither `armada` nor `armada_agent`; it is connected to them only by files in the run's folder.
"""
