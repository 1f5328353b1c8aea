"""Records a user's own training under DeepSpeed as a run file: what it calls, in order, with what decides."""
