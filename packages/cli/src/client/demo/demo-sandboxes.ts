import { type Dormouse, type RunResult, Sandbox } from 'dormouse'
import { CliError } from '../cli-error.ts'

const MEMORY_BYTES = 2 * 1024 ** 3
/** The server deletes the sandboxes if this process is killed. */
const EXPIRES_MS = 3_600_000

export interface Answered {
  readonly text: string
  readonly ms: number
}

/** Creates sandboxes, measures runs in them, and deletes them in the end. */
export class DemoSandboxes implements AsyncDisposable {
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

  /** Does not delete this sandbox in the end. */
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

  /** The memory that the kernel charges to the sandbox. */
  async memoryBytes(sandbox: Sandbox): Promise<number> {
    return (await sandbox.metrics({ signal: this.#signal })).usage?.memoryBytes ?? 0
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // The server deletes them later if this fails: they have a lifetime.
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
  throw new CliError('demo_failed', `The code of the demo failed: ${stderr.trim().split('\n').at(-1)}`, {
    hint: 'The demo needs a template with numpy and pandas, and 2 GiB of memory. `dormouse demo --rows 1000000` needs less.',
  })
}
