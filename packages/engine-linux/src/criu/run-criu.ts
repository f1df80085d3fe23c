import { spawn } from 'node:child_process'
import { constants } from 'node:fs'
import { open } from 'node:fs/promises'
import { enterLibrary } from '../native-programs.ts'
import type { Criu } from './find-criu.ts'

/** The end of what CRIU said, kept for an error message. */
const OUTPUT_MAX_CHARACTERS = 16_384
/** A directory of a burrow that exists, is empty and cannot be written: no plugin of the sandbox's is ever loaded from it. */
const NO_PLUGINS = '/dev/.masked'

export interface CriuCall {
  readonly criu: Criu
  /** PID 1 of the burrow, as the host sees it. */
  readonly firstPid: number
  /** `host` keeps the host's user namespace (saving needs it), `burrow` gives up every privilege over the host. */
  readonly as: 'host' | 'burrow'
  /** Cgroups that CRIU, and with it all that it restores, is to be a member of. */
  readonly cgroups?: readonly string[]
  readonly action: readonly [string, ...string[]]
  /** Host directory with the images. CRIU gets it as an open descriptor: its path means nothing inside. */
  readonly imagesDir: string
  /** Directory inside the burrow with `criu.kdat`. */
  readonly kdatDir: string
}

/**
 * Runs CRIU inside the namespaces of a burrow. It is never killed half way: a dump that is cut off leaves foreign code in the
 * tasks. Whatever the sandbox could have prepared for it is out of its reach: configuration, plugins, libraries, kernel cache.
 */
export async function runCriu(call: CriuCall): Promise<{ exitCode: number | null; output: string }> {
  const images = await open(call.imagesDir, constants.O_RDONLY | constants.O_DIRECTORY)
  try {
    const [program, ...first] = call.criu.argv
    const [action, ...rest] = call.action
    const safe = [
      '--no-default-config',
      '--libdir',
      NO_PLUGINS,
      '--images-dir',
      '/proc/self/fd/3',
      '--unprivileged',
    ]
    const child = spawn(program, [...first, action, ...safe, '-v1', '-o', '-', ...rest], {
      cwd: '/',
      env: {
        LD_PRELOAD: enterLibrary,
        DORMOUSE_ENTER: `${call.firstPid}:${call.as}`,
        ...(call.cgroups !== undefined && { DORMOUSE_ENTER_CGROUPS: call.cgroups.join('\n') }),
        XDG_RUNTIME_DIR: call.kdatDir,
        // GnuTLS, a library of CRIU's, would read configuration at load time.
        GNUTLS_NO_IMPLICIT_INIT: '1',
        PATH: NO_PLUGINS,
      },
      // A Ctrl-C at the server's terminal must not reach it.
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe', images.fd],
    })
    let output = ''
    const keep = (chunk: Buffer) => {
      output = (output + chunk.toString()).slice(-OUTPUT_MAX_CHARACTERS)
    }
    child.stdout?.on('data', keep)
    child.stderr?.on('data', keep)
    const exitCode = await new Promise<number | null>((resolve, reject) => {
      child.once('error', reject)
      child.once('close', resolve)
    })
    return { exitCode, output }
  } finally {
    await images.close()
  }
}
