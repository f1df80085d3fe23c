#pragma once

/* Nobody waits for this process from now on: whatever else the host has to do comes first. */
void be_idle(void);
