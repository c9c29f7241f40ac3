// The learner, with a memory: where an episode ended without a reward there is a hole, and what led
// there is not tried again out of curiosity. On ice the memory would lie: use it with is_slippery: false.

!learn.

+!learn : .spent <- .finish.
+!learn <- .begin; !!live.

+!live : over <- !remember; .reflect; !!learn.
+!live : .spent <- !!learn.
+!live : .curious <- !explore; !!live.
+!live <- !exploit; !!live.

// `at` is where the agent stands before it acts, `deadly` what once ended badly.
+!explore : state(S) <- .explore(A); !try(S, A).
+!exploit : state(S) <- .exploit(A); -+at(S); .act(A).

+!try(S, A) : deadly(S, A) <- .exploit(B); -+at(S); .act(B).
+!try(S, A) <- -+at(S); .act(A).

+!remember : reward(0) & at(S) & did(A) & not deadly(S, A) <- +deadly(S, A).
+!remember.
