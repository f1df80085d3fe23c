#pragma once

/* Raises host-wide limits that a single burrow could otherwise exhaust for all others. */
void raise_ceilings(void);
