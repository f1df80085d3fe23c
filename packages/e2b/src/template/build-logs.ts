/** A line of a build. */
export interface BuildLine {
  readonly at: number
  readonly text: string
}

const LINES_MAX = 5_000
const BUILDS_MAX = 50

/**
 * Lines of the latest builds. Clients count the lines that they have, and read the last ones after the build has ended,
 * so the lines stay for a while. They end with the server.
 */
export class BuildLogs {
  readonly #logs = new Map<string, BuildLine[]>()

  async follow(buildId: string, lines: AsyncIterable<BuildLine>): Promise<void> {
    const kept: BuildLine[] = []
    this.#logs.set(buildId, kept)
    for (const old of [...this.#logs.keys()].slice(0, -BUILDS_MAX)) this.#logs.delete(old)
    // A client that is far behind misses the last lines of a build that says more than this.
    for await (const { at, text } of lines) if (kept.length < LINES_MAX) kept.push({ at, text })
  }

  find(buildId: string): readonly BuildLine[] | undefined {
    return this.#logs.get(buildId)
  }
}
