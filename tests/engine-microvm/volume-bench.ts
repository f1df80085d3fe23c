import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface, type Interface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { burrowFilters } from '../../packages/engine-linux/src/native-programs.ts'
import { UID_BASE, UID_COUNT } from '../../packages/engine-linux/src/template/shifted-root.ts'
import { volumeServerProgram } from '../../packages/engine-microvm/src/native-programs.ts'
import { sendSignal } from '../send-signal.ts'

const run = promisify(execFile)
const here = fileURLToPath(new URL('.', import.meta.url))
const native = fileURLToPath(new URL('../../packages/engine-microvm/native/src', import.meta.url))

/** A Python that executes blocks of code and keeps its variables: what has a volume open. */
const PYTHON = `
import contextlib, io, json, sys
variables = {}
for line in sys.stdin:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try: exec(json.loads(line), variables)
        except BaseException as error: print(type(error).__name__, error)
    print(json.dumps(out.getvalue().strip()), flush=True)
`

/** The relay of a guest and the server of a volume on this machine, without a virtual machine. */
export class VolumeBench {
  readonly dir: string
  readonly volume: string
  readonly #mountPoint: string
  readonly #relay: ChildProcess
  readonly #python: ChildProcess
  readonly #answers: AsyncIterator<string>
  #server = 0
  #count = 0
  #sockets: Socket[] = []

  private constructor(dir: string, relay: ChildProcess) {
    this.dir = dir
    this.volume = join(dir, 'volume')
    this.#mountPoint = join(dir, 'mnt')
    this.#relay = relay
    this.#python = spawn('nsenter', [`--mount=/proc/${relay.pid}/ns/mnt`, 'python3', '-u', '-c', PYTHON], {
      cwd: '/',
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    const lines: Interface = createInterface({ input: this.#python.stdout! })
    this.#answers = lines[Symbol.asyncIterator]()
  }

  static async open({ readOnly = false } = {}): Promise<VolumeBench> {
    const dir = await mkdtemp(join(tmpdir(), 'dormouse-volume-'))
    for (const name of ['volume', 'mnt']) await mkdir(join(dir, name))
    await run('chown', [`${UID_BASE}:${UID_BASE}`, join(dir, 'volume')])
    const program = join(dir, 'mount-volume')
    const sources = [join(here, 'mount-volume.c'), join(native, 'volume-relay.c')]
    await run('gcc', [
      '-O1',
      '-g',
      '-D_GNU_SOURCE',
      '-Wall',
      '-Wextra',
      '-Werror',
      `-I${native}`,
      '-o',
      program,
      ...sources,
    ])
    const relay = spawn(program, [join(dir, 'mnt'), join(dir, 'relay.sock')], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    await once(relay.stdout!, 'data')
    const bench = new VolumeBench(dir, relay)
    await bench.serve({ readOnly })
    return bench
  }

  get serverPid(): number {
    return this.#server
  }

  get requestSocket(): string {
    return join(this.dir, `requests-${this.#count}.sock`)
  }

  /** Runs code in the Python of the guest, in which `volume` is the path of the volume. */
  async python(code: string): Promise<string> {
    this.#python.stdin!.write(`${JSON.stringify(`volume = ${JSON.stringify(this.#mountPoint)}\n${code}`)}\n`)
    const { value } = await this.#answers.next()
    return JSON.parse(value) as string
  }

  /** Starts a server, with the state of an earlier one. Returns what it says if it refuses. */
  async start(state: Buffer = Buffer.alloc(0), { readOnly = false } = {}): Promise<string> {
    this.#count += 1
    const control = join(this.dir, `control-${this.#count}.sock`)
    const child = spawn(
      volumeServerProgram,
      [
        ...burrowFilters.flatMap((filter) => ['--filter', filter]),
        ...['--volume', this.volume, readOnly ? 'ro' : 'rw', '--ids', String(UID_BASE), String(UID_COUNT)],
        ...['--requests', this.requestSocket, '--control', control],
      ],
      { stdio: ['pipe', 'pipe', 'inherit'] },
    )
    child.stdin.on('error', () => {})
    child.stdin.end(state)
    let said = ''
    for await (const chunk of child.stdout) said += String(chunk)
    this.#server = Number(/^ready (\d+)$/m.exec(said)?.[1] ?? 0)
    return said.trim()
  }

  /** Joins guest and server by new connections, as the engine does. */
  async join(): Promise<void> {
    this.cut()
    const [guest, server] = [connect(join(this.dir, 'relay.sock')), connect(this.requestSocket)]
    for (const socket of [guest, server]) socket.on('error', () => {})
    await Promise.all([once(guest, 'connect'), once(server, 'connect')])
    guest.pipe(server)
    server.pipe(guest)
    this.#sockets = [guest, server]
  }

  cut(): void {
    for (const socket of this.#sockets.splice(0)) socket.destroy()
  }

  async serve(options: { readOnly?: boolean; state?: Buffer } = {}): Promise<void> {
    const said = await this.start(options.state, options)
    if (!said.startsWith('ready')) throw new Error(said)
    await this.join()
  }

  async save(): Promise<Buffer> {
    const socket = connect(join(this.dir, `control-${this.#count}.sock`))
    const chunks: Buffer[] = []
    for await (const chunk of socket) chunks.push(chunk as Buffer)
    return Buffer.concat(chunks)
  }

  /** What the server does before a snapshot, and what is left of it: its state. */
  async sleep(): Promise<Buffer> {
    this.cut()
    const state = await this.save()
    await this.endServer()
    return state
  }

  async endServer(): Promise<void> {
    this.cut()
    if (this.#server === 0) return
    sendSignal(this.#server, 'SIGKILL')
    while ((await readFile(`/proc/${this.#server}/stat`, 'utf8').catch(() => ' Z ')).includes(') ')) {
      const text = await readFile(`/proc/${this.#server}/stat`, 'utf8').catch(() => ') Z')
      if (text.includes(') Z')) break
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
    this.#server = 0
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#python.kill('SIGKILL')
    this.#relay.kill('SIGKILL')
    await this.endServer()
    await rm(this.dir, { recursive: true, force: true })
  }
}
