/** The reads under way, by directory of the snapshot. */
const readers = new Map<string, Set<Promise<unknown>>>()

/**
 * Runs `read` on a snapshot. The files that its manifest names when `read` begins stay until `read` ends, even if the
 * snapshot gets a new version meanwhile. Never waits.
 */
export async function whileReading<Result>(directory: string, read: () => Promise<Result>): Promise<Result> {
  const running = read()
  const now = readers.get(directory) ?? new Set()
  readers.set(directory, now.add(running))
  try {
    return await running
  } finally {
    now.delete(running)
    if (now.size === 0 && readers.get(directory) === now) readers.delete(directory)
  }
}

export function isBeingRead(directory: string): boolean {
  return readers.has(directory)
}

/** Settles when the reads that are under way now have ended. Later reads see the present version. */
export async function untilNoReaders(directory: string): Promise<void> {
  await Promise.allSettled(readers.get(directory) ?? [])
}
