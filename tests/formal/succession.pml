/* One history, whoever leads (Note [Succession], engine/launch/succession.h). All interleavings of the leaders of a run whose
   machines share the output folder. A leader may be paused anywhere, for ever or until others have led: a machine that has
   died is one that never wakes. The server of the folder's lock drops it at any moment: its holder is dead, or has not
   answered for too long.

   -DLOADS_FIRST: a leader looks for the newest checkpoint before it removes unfinished saves.
   -DTRUSTS_LOCK: a leader doesn't look whose the folder is before it publishes. */
#define LEADERS 3
#define SAVES 2 /* of each leader */
#define NOBODY 0

byte lock = NOBODY;           /* who holds it */
byte owner = NOBODY;          /* the name in the lock file: engine/base/folder_lock.h */
bool unfinished[LEADERS + 1]; /* .checkpoint-N.<attempt>.partial */
byte newest = 0;              /* checkpoints that were published */

#ifdef TRUSTS_LOCK
#define require skip
#else
#define require if :: owner == me :: else -> goto taken_over fi
#endif

inline remove_unfinished() {
  require;
  d_step { for (i : 1 .. LEADERS) { unfinished[i] = false } }
}

proctype leader(byte me) {
  byte loaded, saves, i;
  atomic { lock == NOBODY -> lock = me };
  owner = me;
#ifdef LOADS_FIRST
  loaded = newest;
  remove_unfinished();
#else
  remove_unfinished();
  loaded = newest;
#endif
  do
  :: saves == SAVES -> break
  :: else ->
    remove_unfinished();
    unfinished[me] = true; /* and all ranks write their files into it */
    require;
    atomic { /* the rename */
      if
      :: unfinished[me] ->
        assert(newest == loaded); /* what is published continues the newest checkpoint */
        unfinished[me] = false;
        newest++;
        loaded = newest
      :: else -> goto taken_over
      fi
    };
    saves++
  od;
taken_over:
  skip
}

active proctype server() {
end:
  do
  :: atomic { lock != NOBODY -> lock = NOBODY }
  od
}

init {
  byte i;
  atomic { for (i : 1 .. LEADERS) { run leader(i) } }
}
