#pragma once

/*
 * Ends the kernel's repair mode of every connection that this process has put into it. CRIU leaves them in it when it
 * leaves processes stopped, because it takes them for dead; ours may have to go on.
 */
void end_repair(void);
