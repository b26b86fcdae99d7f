/* One history without a shared folder (Note [Votes], engine/launch/membership.h). All interleavings of machines that connect to
   each other, propose generations, vote, and train. Any machine may be cut off, paused, or killed at any moment, for ever or
   for a while: it then leaves its generation, and has what it has written when it continues. Any message may be lost with
   the connection, and arrive after any time until then.

   -DUNWRITTEN: votes are not written to the disk.
   -DIGNORES_VOTES: only the machines of the last agreed generation count, not those of later ones that were voted for.
   -DANY_HALF: half of the machines are a majority, with or without their leader.
   -DLATE: a vote counts although the machine has left and voted elsewhere since.
   -DAGREES_FIRST: a generation is agreed before its leader has the newest checkpoint. */
#define MACHINES 3
#ifndef EPOCHS
#define EPOCHS 3
#endif
#define PROPOSALS (EPOCHS * MACHINES) /* number (epoch - 1) * MACHINES + leader + 1; 0: all machines, which began together */
#define EPOCH(p) ((p + MACHINES - 1) / MACHINES)
#define LEADER(p) ((p == 0) -> 0 : (p - 1) % MACHINES)
#define HAS(set, one) (((set) >> (one)) & 1)
#define COUNT(set) (HAS(set, 0) + HAS(set, 1) + HAS(set, 2))
#define HERE(set, p) (2 * COUNT((set) & members[p]))
#ifdef ANY_HALF
#define MAJORITY(set, p) (HERE(set, p) >= COUNT(members[p]))
#else
#define MAJORITY(set, p) (HERE(set, p) > COUNT(members[p]) || (HERE(set, p) == COUNT(members[p]) && HAS(set, LEADER(p))))
#endif
#ifdef LATE
#define CONNECTED(me, p) HAS(members[p], me)
#else
#define CONNECTED(me, p) (takes_part[me] == p)
#endif

/* on the disk of each machine */
byte promised[MACHINES];
byte agreed[MACHINES]; /* the last generation that it knows to have begun */
short voted[MACHINES]; /* the set of later ones that it has voted for */
byte newest[MACHINES]; /* checkpoint that it holds: the generation that saved it */

byte takes_part[MACHINES];   /* the proposal whose leader it is connected to; 0: none */
byte members[PROPOSALS + 1]; /* of each proposal */
byte votes[PROPOSALS + 1];   /* that its leader has received */
byte history;                /* the last generation whose checkpoint has a copy */

inline agree(me, p) {
  agreed[me] = p;
  voted[me] = voted[me] & ~((1 << (EPOCH(p) * MACHINES + 1)) - 1)
}

inline fetch_newest(p) {
  for (i : 0 .. MACHINES - 1) {
    if
    :: HAS(members[p], i) && newest[i] > newest[LEADER(p)] -> newest[LEADER(p)] = newest[i]
    :: else
    fi
  }
}

inline are_all_connected(p) {
  for (i : 0 .. MACHINES - 1) { ok = ok && (!HAS(members[p], i) || takes_part[i] == p) }
}

proctype machine(byte me) {
  byte set, last, highest, i, p;
  bool ok;
  do
  :: atomic { /* it proposes a generation of any machines that have come to it */
       takes_part[me] == 0 ->
       select (set : 1 .. 7);
       ok = HAS(set, me);
       for (i : 0 .. MACHINES - 1) {
         if
         :: HAS(set, i) ->
           ok = ok && takes_part[i] == 0;
           if :: EPOCH(agreed[i]) > EPOCH(last) -> last = agreed[i] :: else fi;
           if :: promised[i] > highest -> highest = promised[i] :: else fi
         :: else
         fi
       }
       ok = ok && highest < EPOCHS && MAJORITY(set, last);
#ifndef IGNORES_VOTES
       for (i : 0 .. MACHINES - 1) {
         for (p : 1 .. PROPOSALS) {
           ok = ok && !(HAS(set, i) && HAS(voted[i], p) && EPOCH(p) > EPOCH(last) && !MAJORITY(set, p))
         }
       }
#endif
       if
       :: ok ->
         p = highest * MACHINES + me + 1;
         members[p] = set;
         votes[p] = 1 << me;
         for (i : 0 .. MACHINES - 1) { if :: HAS(set, i) -> takes_part[i] = p :: else fi }
         promised[me] = highest + 1;
         voted[me] = voted[me] | (1 << p)
       :: else
       fi;
       set = 0; last = 0; highest = 0; i = 0; p = 0; ok = false
     }
  :: atomic { /* it votes */
       select (p : 1 .. PROPOSALS);
       if
       :: CONNECTED(me, p) && EPOCH(p) > promised[me] ->
         promised[me] = EPOCH(p);
         voted[me] = voted[me] | (1 << p);
         votes[p] = votes[p] | (1 << me);
         takes_part[me] = p
       :: else
       fi;
       p = 0
     }
  :: atomic { /* it leads, and all have voted: the generation is agreed */
       p = takes_part[me];
       ok = p != 0 && LEADER(p) == me && agreed[me] != p && votes[p] == members[p];
#ifndef AGREES_FIRST
       are_all_connected(p);
#endif
       if
       :: ok ->
#ifndef AGREES_FIRST
         fetch_newest(p);
#endif
         agree(me, p);
         votes[p] = 0
       :: else
       fi;
       i = 0; p = 0; ok = false
     }
  :: atomic { /* its leader has told it so */
       takes_part[me] != 0 && agreed[LEADER(takes_part[me])] == takes_part[me] && agreed[me] != takes_part[me] ->
       agree(me, takes_part[me])
     }
  :: atomic { /* all train, save, and copy */
       p = agreed[me];
       ok = p != 0 && takes_part[me] == p && LEADER(p) == me && history != p;
       are_all_connected(p);
       if
       :: ok ->
#ifdef AGREES_FIRST
         fetch_newest(p);
#endif
         assert(EPOCH(p) > EPOCH(history));
         assert(newest[me] == history); /* it continues from there */
         history = p;
         newest[me] = p;
         for (i : 0 .. MACHINES - 1) {
           if
           :: i != me && HAS(members[p], i) -> newest[i] = p; break
           :: else
           fi
         }
       :: else
       fi;
       i = 0; p = 0; ok = false
     }
  :: atomic { /* it was lost, or has lost its leader */
       takes_part[me] != 0 ->
       if :: LEADER(takes_part[me]) == me -> votes[takes_part[me]] = 0 :: else fi;
       takes_part[me] = 0
#ifdef UNWRITTEN
       ;
       promised[me] = EPOCH(agreed[me]);
       voted[me] = 0
#endif
     }
  od
}

init {
  byte i;
  atomic {
    members[0] = (1 << MACHINES) - 1;
    for (i : 0 .. MACHINES - 1) { run machine(i) }
  }
}
