/** By directory of a snapshot: the restores that are reading it now. */
const readers = new Map<string, Set<Promise<unknown>>>()

/**
 * Reads a snapshot. What it finds there first, the manifest, names files that stay for as long as `read` takes, even if the
 * snapshot gets a new version meanwhile. It never waits.
 */
export async function reading<Result>(directory: string, read: () => Promise<Result>): Promise<Result> {
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

/** Settles when those who read now are done. Whoever begins later sees what is there now. */
export async function untilRead(directory: string): Promise<void> {
  await Promise.allSettled(readers.get(directory) ?? [])
}
