// How the agent learns. Copy this file, change it, and name it in the run's params (plans: my.asl).
//
// Beliefs it is given    state(S)  action taken last: did(A)  reward(R)  over (the episode has ended)
//                        episode(N)  mean_return(M)  confidence(C)  known_states(K)
// Questions it can ask   .curious   true as often as the exploration schedule says
//                        .spent     true when the run's steps are used up
// What it can do         .begin     begin the next episode
//                        .explore(A)  a random action     .exploit(A)  the best known action
//                        .act(A)    take it, and learn from what happens
//                        .reflect   look back on the episode: renews mean_return and confidence
//                        .finish    the end of the run

!learn.

// One more episode, as long as there are steps left. `!!` begins a new intention: the stack does not grow.
+!learn : .spent <- .finish.
+!learn <- .begin; !!live.

// Within an episode: one decision, one action, again.
+!live : over <- .reflect; !!learn.
+!live : .spent <- !!learn.
+!live : .curious <- !explore; !!live.
+!live <- !exploit; !!live.

+!explore <- .explore(A); .act(A).
+!exploit <- .exploit(A); .act(A).
