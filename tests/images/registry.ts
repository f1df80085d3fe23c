import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type ImageConfig, type LayoutOptions, writeLayout } from './make-image.ts'

export interface Push extends LayoutOptions {
  /** `user:password` */
  readonly creds?: string
}

/** `tester` with the password `secret`, as a file of htpasswd has it. */
export const TESTER = 'tester:$2b$05$SwPw8w4P4Ej/MlTnZl0GgOulP7HcLi.BT.LpOkuOt0kVaA1MBdUwy'
/** `keeper` with the password `other`. */
export const KEEPER = 'keeper:$2b$05$SwPw8w4P4Ej/MlTnZl0GgOuZ419QvYK.hldRJ.kunCVag6HJ6Iw4u'

/** Debian's docker-registry on loopback, with its files in a directory of its own. */
export class Registry {
  readonly directory: string
  readonly port: number
  readonly #password: string | undefined
  #child: ChildProcess | undefined

  private constructor(directory: string, port: number, password: string | undefined) {
    this.directory = directory
    this.port = port
    this.#password = password
  }

  /** With `htpasswd`, the line of an htpasswd file, it asks for a password. */
  static async start(htpasswd?: string): Promise<Registry> {
    const directory = mkdtempSync(join(tmpdir(), 'dormouse-registry-'))
    const registry = new Registry(directory, await freePort(), htpasswd)
    await registry.begin()
    return registry
  }

  get host(): string {
    return `127.0.0.1:${this.port}`
  }

  /** A registries.conf that lists this registry as one without TLS. */
  get conf(): string {
    const path = join(this.directory, 'registries.conf')
    writeFileSync(path, `[[registry]]\nlocation = "${this.host}"\ninsecure = true\n`)
    return path
  }

  async begin(): Promise<void> {
    const data = join(this.directory, 'data')
    mkdirSync(data, { recursive: true })
    const passwords = join(this.directory, 'htpasswd')
    if (this.#password !== undefined) writeFileSync(passwords, `${this.#password}\n`)
    const config = {
      version: 0.1,
      log: { level: 'error' },
      storage: { filesystem: { rootdirectory: data } },
      http: { addr: this.host },
      ...(this.#password !== undefined && { auth: { htpasswd: { realm: 'tests', path: passwords } } }),
    }
    const file = join(this.directory, 'config.yml')
    // JSON is YAML.
    writeFileSync(file, JSON.stringify(config))
    this.#child = spawn('docker-registry', ['serve', file], { stdio: 'ignore' })
    await this.#answers()
  }

  /** Makes an image and pushes it. */
  push(name: string, layers: readonly Buffer[], config: ImageConfig = {}, options: Push = {}): string {
    const layout = mkdtempSync(join(this.directory, 'layout-'))
    writeLayout(layout, layers, config, options)
    return this.pushLayout(name, layout, options)
  }

  pushLayout(name: string, layout: string, { creds }: Push = {}): string {
    const reference = `${this.host}/${name}`
    const login = creds === undefined ? [] : ['--dest-creds', creds]
    // All platforms of an image.
    const options = ['--insecure-policy', 'copy', '--all', '--dest-tls-verify=false', ...login]
    execFileSync('skopeo', [...options, `oci:${layout}`, `docker://${reference}`], { stdio: 'pipe' })
    return reference
  }

  async stop(): Promise<void> {
    const child = this.#child
    this.#child = undefined
    if (child === undefined || child.exitCode !== null) return
    const ended = new Promise((resolve) => child.once('exit', resolve))
    child.kill('SIGKILL')
    await ended
  }

  async cleanUp(): Promise<void> {
    await this.stop()
    rmSync(this.directory, { recursive: true, force: true })
  }

  async #answers(): Promise<void> {
    const deadline = Date.now() + 30_000
    for (;;) {
      const answer = await fetch(`http://${this.host}/v2/`).catch(() => undefined)
      if (answer !== undefined) return
      if (Date.now() > deadline) throw new Error('the registry does not answer')
      await sleep(20)
    }
  }
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const address = server.address()
      server.close(() => resolve(typeof address === 'object' && address !== null ? address.port : 0))
    })
  })
}
