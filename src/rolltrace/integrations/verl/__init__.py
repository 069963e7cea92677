"""verl: `actor_rollout_ref.rollout.trace.backend=rolltrace` traces every rollout. docs/howto/verl.md."""
