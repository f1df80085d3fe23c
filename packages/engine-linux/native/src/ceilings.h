#pragma once

/* Raises the host-wide ceilings that one burrow could otherwise reach at the expense of all others. */
void raise_ceilings(void);
