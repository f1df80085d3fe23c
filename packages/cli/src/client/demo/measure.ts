import { type Dormouse, type RunResult, Sandbox } from 'dormouse'
import { Problem } from '../problem.ts'

const MEMORY_BYTES = 2 * 1024 ** 3
/** Should this be killed before it can clean up, the server does. */
const EXPIRES_MS = 3_600_000

export interface Answered {
  readonly text: string
  readonly ms: number
}

/** Makes sandboxes, runs code in them with a clock, and leaves none behind. */
export class Stage implements AsyncDisposable {
  readonly #client: Dormouse
  readonly #signal: AbortSignal
  readonly #made = new Map<string, Sandbox>()
  readonly #keep: boolean

  constructor(client: Dormouse, { signal, keep }: { signal: AbortSignal; keep: boolean }) {
    this.#client = client
    this.#signal = signal
    this.#keep = keep
  }

  async create(): Promise<Sandbox> {
    const options = {
      limits: { memoryBytes: MEMORY_BYTES },
      metadata: { madeBy: 'dormouse demo' },
      ...(this.#keep ? {} : { expires: { afterMs: EXPIRES_MS, action: 'delete' as const } }),
    }
    return this.own(await Sandbox.create(options, { client: this.#client, signal: this.#signal }))
  }

  own(sandbox: Sandbox): Sandbox {
    this.#made.set(sandbox.id, sandbox)
    return sandbox
  }

  /** It stays. */
  release(id: string): void {
    this.#made.delete(id)
  }

  async delete(sandbox: Sandbox): Promise<void> {
    await sandbox.delete()
    this.#made.delete(sandbox.id)
  }

  async run(sandbox: Sandbox, code: string): Promise<Answered> {
    const { value, ms } = await timed(() => sandbox.runCode(code, { signal: this.#signal }))
    return { text: outputOf(value), ms }
  }

  /** What the kernel says that it holds in memory. */
  async memoryBytes(sandbox: Sandbox): Promise<number> {
    return (await sandbox.metrics({ signal: this.#signal })).usage?.memoryBytes ?? 0
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#made.values()].map((sandbox) => sandbox.delete().catch(() => {})))
  }
}

export async function timed<Value>(work: () => Promise<Value>): Promise<{ value: Value; ms: number }> {
  const began = performance.now()
  const value = await work()
  return { value, ms: performance.now() - began }
}

function outputOf({ exitCode, stdout, stderr }: RunResult): string {
  if (exitCode === 0) return stdout.trim()
  throw new Problem('demo_failed', `The code of the demo failed: ${stderr.trim().split('\n').at(-1)}`, {
    hint: 'It needs a template with numpy and pandas, and 2 GiB of memory: `dormouse demo --rows 1000000` needs less.',
  })
}
