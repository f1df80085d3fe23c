#pragma once

/* Decompresses all gzip members of `from` into `to`. Ends the process if the stream is damaged or cut off. */
void gunzip(int from, int to);
