import type { Duplex } from 'node:stream'
import { startProgram } from '../host/start-program.ts'
import { baseFilter, enterLibrary } from '../native-programs.ts'
import type { Criu } from './find-criu.ts'

/** The end of CRIU's output, kept for an error message. */
const OUTPUT_MAX_CHARACTERS = 16_384
/** What libdormouse-enter.so writes when all is restored but no process continues yet, and when CRIU exits with 0. */
const RESTORED = 'r'
const SUCCEEDED = '0'
/** Exit code after a dump was cut off by a signal or its deadline: see native/src/cut-off.h. */
const CUT_OFF = 124
/** Where a dumping CRIU finds the directory that freezes the burrow: native/src/enter.c opens it. */
export const FREEZER_PATH = '/proc/self/fd/5'
/**
 * A directory of a burrow that exists, is empty and cannot be written: no plugin of a sandbox is ever loaded from it.
 */
const NO_PLUGINS = '/dev/.masked'

/**
 * Compares files by size alone. Otherwise CRIU maps every library to compare its build id, which takes milliseconds and
 * cannot differ: a sandbox wakes with the same layers that it fell asleep with.
 */
export const FILE_VALIDATION = ['--file-validation', 'filesize'] as const

export interface CriuCall {
  readonly criu: Criu
  /** `host` keeps the host's user namespace, which a dump needs; `burrow` gives up every privilege over the host. */
  readonly as: 'host' | 'burrow'
  /** Cgroups that CRIU joins, and with it everything that it restores. */
  readonly cgroups?: readonly string[]
  readonly action: readonly [string, ...string[]]
  /** Directory inside the burrow with `criu.kdat`. */
  readonly kdatDir: string
  /** CRIU only examines the kernel, in a burrow that no sandbox has touched: no filter hides system calls from it. */
  readonly isExamining?: boolean
}

export interface CriuResult {
  readonly exitCode: number | null
  readonly output: string
  /** The dump was not finished. CRIU's own code is in the processes of the burrow, so they are being killed. */
  readonly isCutOff: boolean
}

export interface CriuTarget {
  /** PID 1 of the burrow, as the host sees it. */
  readonly firstPid: number
  /** Host directory with the images. CRIU gets it as an open descriptor: its path means nothing inside. */
  readonly imagesDir: string
  /**
   * Host directory of the burrow's freezer. A dumping CRIU thaws it when it has seized every member, and freezes it
   * again at the end.
   */
  readonly freezerDir?: string
  /** Gives a dumping CRIU one more capability, to find watched files on volumes. */
  readonly hasVolumes?: boolean
  /** How long a dump may take. A burrow whose dump takes longer is killed, even if this process has ended by then. */
  readonly deadlineMs?: number
  /** Called when a restoring CRIU has everything in place, some milliseconds before the processes continue. */
  readonly onRestored?: (() => void) | undefined
}

export interface StartedCriu {
  readonly isWaiting: boolean
  /** Settles when nothing of it is left. */
  readonly finished: Promise<CriuResult>
  /** Lets it continue, inside the burrow. */
  enter(target: CriuTarget): Promise<CriuResult>
  /** Ends it before it has done anything. */
  cancel(): void
}

/** Runs CRIU inside a burrow that exists already. */
export async function runCriu({ firstPid, imagesDir, ...call }: CriuCall & CriuTarget): Promise<CriuResult> {
  return startCriu(call).enter({ firstPid, imagesDir })
}

/**
 * Starts CRIU, which waits until `enter` names a burrow. A dump that is cut off leaves CRIU's code in the processes, so
 * once CRIU is inside, only its deadline ends it, and the burrow with it.
 * Nothing that a sandbox could prepare reaches CRIU: neither configuration, plugins and libraries, nor what CRIU knows
 * about the kernel.
 */
export function startCriu(call: CriuCall): StartedCriu {
  const [program, ...first] = call.criu.argv
  const [action, ...rest] = call.action
  const safe = [
    '--no-default-config',
    '--unprivileged',
    '--libdir',
    NO_PLUGINS,
    '--images-dir',
    '/proc/self/fd/3',
  ]
  const child = startProgram({
    argv: [program, ...first, action, ...safe, '-v1', '-o', '-', ...rest],
    cwd: '/',
    env: {
      LD_PRELOAD: enterLibrary,
      DORMOUSE_ENTER: call.as,
      ...(call.cgroups !== undefined && { DORMOUSE_ENTER_CGROUPS: call.cgroups.join('\n') }),
      ...(call.as === 'burrow' && call.isExamining !== true && { DORMOUSE_ENTER_FILTER: baseFilter }),
      XDG_RUNTIME_DIR: call.kdatDir,
      // GnuTLS, a library that CRIU loads, would read configuration at load time.
      GNUTLS_NO_IMPLICIT_INIT: '1',
      PATH: NO_PLUGINS,
    },
    // A Ctrl-C at the server's terminal must not reach it.
    isDetached: true,
    stdio: ['ignore', 'pipe', 'pipe', 'ignore', 'pipe'],
  })
  let output = ''
  const keep = (chunk: Buffer) => {
    output = (output + chunk.toString()).slice(-OUTPUT_MAX_CHARACTERS)
  }
  const [, stdout, stderr, , channel] = child.streams
  stdout?.on('data', keep)
  stderr?.on('data', keep)
  const finished = child.closed.then(({ exitCode }): CriuResult => {
    const isCutOff = call.as === 'host' && (exitCode === CUT_OFF || exitCode === null)
    return { exitCode, output, isCutOff }
  })
  const target = channel as Duplex
  // CRIU may have failed before it reads; its exit says more than EPIPE.
  target.on('error', () => {})
  return {
    get isWaiting() {
      return child.isRunning
    },
    finished,
    enter({ firstPid, imagesDir, freezerDir = '', deadlineMs = 0, hasVolumes = false, onRestored }) {
      const seconds = Math.ceil(deadlineMs / 1000)
      // CRIU waits for the end of the lines, not of the stream: its result comes back on the same stream.
      target.write(`${firstPid} ${seconds} ${Number(hasVolumes)}\n${imagesDir}\n${freezerDir}\n`)
      return succeededOrFinished({ target, finished, output: () => output, onRestored })
    },
    cancel() {
      target.end()
    },
  }
}

/** CRIU reports success before it frees its memory, some milliseconds before it ends. */
function succeededOrFinished({
  target,
  finished,
  output,
  onRestored,
}: {
  target: Duplex
  finished: Promise<CriuResult>
  output: () => string
  onRestored: CriuTarget['onRestored']
}): Promise<CriuResult> {
  return new Promise((resolve, reject) => {
    finished.then(resolve, reject)
    target.on('data', (message: Buffer) => {
      const said = message.toString()
      if (said.includes(SUCCEEDED)) resolve({ exitCode: 0, output: output(), isCutOff: false })
      else if (said.includes(RESTORED)) onRestored?.()
    })
  })
}
