import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { request } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseAllDocuments } from 'yaml'
import { isAlive } from '../kill-process.ts'
import { bundleOf, type PodSpec } from './pod-bundle.ts'

const MANIFEST = fileURLToPath(new URL('../../deploy/kubernetes.yaml', import.meta.url))
/** A file system that any directory of the machine can lie below: what the pod changes is in memory, as a layer above. */
const MOUNT_ROOTFS = `
mount -t tmpfs -o mode=755 tmpfs "$2"
mkdir "$2/upper" "$2/work" "$2/root" "$2/cgroups"
mount -t overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" overlay "$2/root"`
/** crun does not start where cgroups of version 1 and 2 are both mounted. The pod gets those of the machine. */
const SHOW_CGROUPS = `
mount --rbind /sys/fs/cgroup "$2/cgroups"
mount -t cgroup2 cgroup2 /sys/fs/cgroup`
/** Mounts below a hostPath are shared, as systemd makes all mounts of a node. */
const SHARE = `
for path in "$@"; do mount --bind "$path" "$path"; mount --make-shared "$path"; done`

export interface NodeOptions {
  /** Files of the image: those of this machine unless there is an image. */
  readonly rootfs?: string
  /** What the manifest says otherwise here: ports, servers, paths. */
  readonly changes: readonly (readonly [from: string, to: string])[]
  readonly secrets: Readonly<Record<string, Readonly<Record<string, string>>>>
  /** Directories of the machine that the container sees, too. */
  readonly besides: readonly (readonly [source: string, destination: string])[]
  readonly prepare?: (dataDir: string) => Promise<void>
}

const LINES_SHOWN = 20

// biome-ignore lint/suspicious/noExplicitAny: a manifest
type Json = any

/**
 * A node of Kubernetes with a pod of deploy/kubernetes.yaml: an OCI runtime starts the container of the DaemonSet with
 * the mounts, propagation, namespaces and rights that kubelet and containerd give it.
 */
export class KubernetesNode {
  readonly directory: string
  readonly dataDir: string
  readonly output: string[] = []
  readonly #options: NodeOptions
  readonly #namespace: ChildProcess
  readonly #container: Json
  readonly #spec: PodSpec & Json
  readonly #services: Json[]
  #pod: { name: string; pid: number } | undefined
  #pods = 0

  private constructor(directory: string, options: NodeOptions, namespace: ChildProcess, objects: Json[]) {
    this.directory = directory
    this.dataDir = join(directory, 'data')
    this.#options = options
    this.#namespace = namespace
    this.#spec = objects.find(({ kind }) => kind === 'DaemonSet').spec.template.spec
    this.#container = this.#spec.containers[0]
    this.#services = objects.filter(({ kind }) => kind === 'Service')
  }

  static async start(options: NodeOptions): Promise<KubernetesNode> {
    const directory = await mkdtemp(join(tmpdir(), 'dormouse-node-'))
    const dataDir = join(directory, 'data')
    for (const name of ['data', 'rootfs', 'secrets']) await mkdir(join(directory, name), { mode: 0o755 })
    await mkdir('/run/dormouse', { recursive: true })
    await options.prepare?.(dataDir)
    const objects = await readManifest([['/var/lib/dormouse', dataDir], ...options.changes])
    const script = `${MOUNT_ROOTFS}${SHOW_CGROUPS}\nshift 2\n${SHARE}\necho ready\nexec cat`
    // It ends with this process, and all mounts with it.
    const namespace = spawn(
      'unshare',
      [
        ...['--mount', '--propagation', 'private', 'sh', '-euc', script, 'sh'],
        ...[options.rootfs ?? '/', join(directory, 'rootfs'), dataDir, '/run/dormouse'],
      ],
      { stdio: ['pipe', 'pipe', 'inherit'] },
    )
    await new Promise((resolve, reject) => {
      namespace.stdout?.once('data', resolve)
      namespace.once('exit', () => reject(new Error('the node has no mounts')))
    })
    const node = new KubernetesNode(directory, options, namespace, objects)
    for (const [name, files] of Object.entries(options.secrets)) await node.#writeSecret(name, files)
    return node
  }

  /** As kubelet does it: files are links into a directory that is replaced as a whole. */
  async #writeSecret(name: string, files: Readonly<Record<string, string>>): Promise<void> {
    const directory = join(this.directory, 'secrets', name)
    await mkdir(join(directory, '..version'), { recursive: true, mode: 0o755 })
    await symlink('..version', join(directory, '..data'))
    for (const [file, source] of Object.entries(files)) {
      await cp(source, join(directory, '..version', file))
      await symlink(join('..data', file), join(directory, file))
    }
  }

  #sources(): Map<string, string> {
    return new Map(
      this.#spec.volumes.map(({ name, hostPath, secret }: Json) => [
        name,
        hostPath?.path === '/sys/fs/cgroup'
          ? join(this.directory, 'rootfs/cgroups')
          : (hostPath?.path ?? join(this.directory, 'secrets', secret.secretName)),
      ]),
    )
  }

  get #port(): number {
    return this.#container.ports[0].containerPort
  }

  get url(): string {
    return `https://127.0.0.1:${this.#port}`
  }

  /** Starts a pod and waits until the readiness probe succeeds. Pre: none runs. */
  async startPod(): Promise<void> {
    this.#pods += 1
    const name = `${this.directory.split('/').pop()}-${this.#pods}`
    const bundle = join(this.directory, name)
    await mkdir(bundle)
    const config = await bundleOf(this.#spec, {
      rootfs: join(this.directory, 'rootfs/root'),
      ...{ hostname: name, sources: this.#sources(), besides: this.#options.besides },
      ...{ fields: { NODE_ADDRESS: '127.0.0.1' }, services: this.#services },
    })
    await writeFile(join(bundle, 'config.json'), JSON.stringify(config))
    const pidFile = join(bundle, 'pid')
    // Detached: sandboxes outlive their server, and crun would wait for them as the reaper of orphans.
    const runtime = this.#crun(['run', '--detach', '--bundle', bundle, '--pid-file', pidFile, name])
    for (const stream of [runtime.stdout, runtime.stderr])
      if (stream) createInterface({ input: stream }).on('line', (line) => this.output.push(line))
    const [status] = await once(runtime, 'exit')
    if (status !== 0) throw new Error(`the pod does not start:\n${this.#lastOutput()}`)
    this.#pod = { name, pid: Number(await readFile(pidFile, 'utf8')) }
    await this.#untilReady(this.#pod.pid)
  }

  #lastOutput(): string {
    return this.output.slice(-LINES_SHOWN).join('\n')
  }

  async #untilReady(pid: number): Promise<void> {
    const { periodSeconds, failureThreshold } = this.#container.startupProbe
    const deadline = Date.now() + periodSeconds * failureThreshold * 1000
    const { path } = this.#container.readinessProbe.httpGet
    while (!(await this.probe(path))) {
      if (!isAlive(pid)) throw new Error(`the pod has ended:\n${this.#lastOutput()}`)
      if (Date.now() > deadline) throw new Error('the startup probe has failed too often')
      await sleep(100)
    }
  }

  /** As kubelet asks: it does not check certificates. */
  probe(path: string): Promise<boolean> {
    return new Promise((resolve) => {
      request(`${this.url}${path}`, { rejectUnauthorized: false }, (response) => {
        response.resume()
        resolve((response.statusCode ?? 500) < 400)
      })
        .once('error', () => resolve(false))
        .end()
    })
  }

  /** Ends the pod and waits for it. Post: nothing of the container is left. */
  async endPod(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    const pod = this.#pod
    if (pod === undefined) return
    this.#pod = undefined
    if (isAlive(pod.pid)) process.kill(pod.pid, signal)
    while (isAlive(pod.pid)) await sleep(5)
    await once(this.#crun(['delete', '--force', pod.name]), 'exit')
  }

  /** Runs a command in the container, as `kubectl exec` does. */
  async exec(...command: readonly string[]): Promise<string> {
    const child = this.#crun(['exec', this.#pod?.name ?? '', ...command])
    const parts: Buffer[] = []
    for (const stream of [child.stdout, child.stderr]) stream?.on('data', (data: Buffer) => parts.push(data))
    const [status] = await once(child, 'close')
    const text = Buffer.concat(parts).toString()
    if (status !== 0) throw new Error(`${command.join(' ')} ended with ${status}: ${text}`)
    return text
  }

  #crun(args: readonly string[]): ChildProcess {
    const inside = ['--target', String(this.#namespace.pid), '--mount', '--']
    // Nothing of the container needs a cgroup of its own.
    const crun = ['crun', '--root', join(this.directory, 'crun'), '--cgroup-manager=disabled']
    return spawn('nsenter', [...inside, ...crun, ...args], { stdio: ['ignore', 'pipe', 'pipe'] })
  }

  async remove(): Promise<void> {
    await this.endPod('SIGTERM')
    this.#namespace.stdin?.end()
    if (this.#namespace.exitCode === null) await once(this.#namespace, 'exit')
    await rm(this.directory, { recursive: true, force: true })
  }
}

async function readManifest(changes: readonly (readonly [from: string, to: string])[]): Promise<Json[]> {
  let text = await readFile(MANIFEST, 'utf8')
  for (const [from, to] of changes) {
    if (!text.includes(from)) throw new Error(`the manifest has no ${from}`)
    text = text.replaceAll(from, to)
  }
  return parseAllDocuments(text).map((document) => document.toJS())
}
