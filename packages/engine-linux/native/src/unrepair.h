#pragma once

/*
 * Ends repair mode (TCP_REPAIR) of every connection that this process put into it. CRIU leaves connections in it when
 * it leaves processes stopped, because it expects them to be killed. Ours may have to continue.
 */
void end_repair(void);
