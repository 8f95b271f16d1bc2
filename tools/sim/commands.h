/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SIM_COMMANDS_H
#define SIM_COMMANDS_H

/* The commands of loco-sim. Each gets its own command line, argv[0] is its name, and returns the
 * exit status: 0 passed, 1 a failure was found, 2 wrong use. */
#define SIM_EXIT_INTERRUPTED 130

int sim_command_explore(int argc, char **argv);         /* explore.c */
int sim_command_replay(int argc, char **argv);          /* replay.c */
int sim_command_litmus(int argc, char **argv);          /* litmus_command.c */
int sim_command_scale(int argc, char **argv);           /* scale.c */

#endif
