import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { request } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { makeCertificates } from '../cluster/certificates.ts'
import { freePort, NatsServer } from '../cluster/nats-server.ts'
import { testDataDir } from '../test-data-dir.ts'
import { buildImage, hasBuildah, type Image } from './build-image.ts'
import { KubernetesNode, type NodeOptions } from './kubernetes-node.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))
const isLarge = process.env['DORMOUSE_TEST_LARGE'] === '1'
const BUILD_TIMEOUT_MS = 1_800_000
const SETTINGS = {
  ssh: { enabled: false },
  minFreeMemoryBytes: 0,
  minFreeDiskBytes: 0,
  builds: { builtIn: false },
}

const writeSettings = (dataDir: string) => writeFile(join(dataDir, 'config.json'), JSON.stringify(SETTINGS))
/** Everything is on one mount, as in the data of a node: snapshots link to files of their template. */
async function linkTemplates(dataDir: string): Promise<void> {
  await mkdir(join(dataDir, 'templates'), { mode: 0o711 })
  const copy = async (options: string, part: string) =>
    await promisify(execFile)('cp', [options, join(testDataDir, part), join(dataDir, part)])
  for (const part of ['stamps', 'template-layers', 'tools', 'templates/python'])
    await copy('-alT', part).catch(() => copy('-aT', part))
}

/** As if the image had the files of this machine, with this repository set up, and the node had its templates. */
const FILES_OF_THIS_MACHINE = {
  besides: [[root, '/opt/dormouse']],
  prepare: async (dataDir: string) => {
    await linkTemplates(dataDir)
    await writeSettings(dataDir)
  },
} as const

/** NATS with what the comments of the manifest make before its pods. */
class Surroundings {
  readonly directory: string
  readonly #nats: NatsServer
  readonly #nodes: KubernetesNode[] = []
  readonly #ca: Buffer
  readonly #secrets: NodeOptions['secrets']
  #key = ''

  private constructor(directory: string, nats: NatsServer, ca: Buffer, secrets: NodeOptions['secrets']) {
    this.directory = directory
    this.#nats = nats
    this.#ca = ca
    this.#secrets = secrets
  }

  static async make(): Promise<Surroundings> {
    const directory = await mkdtemp(join(tmpdir(), 'dormouse-kubernetes-'))
    const { ca, cert, key } = makeCertificates(directory)
    const clusterKey = join(directory, 'cluster.key')
    await writeFile(clusterKey, randomBytes(32).toString('base64'))
    return new Surroundings(directory, await NatsServer.start(), await readFile(ca), {
      'dormouse-cluster': { 'cluster.key': clusterKey },
      'dormouse-tls': { 'tls.crt': cert, 'tls.key': key, 'ca.crt': ca },
    })
  }

  async startNode(options: Pick<NodeOptions, 'rootfs' | 'besides' | 'prepare'>): Promise<KubernetesNode> {
    const node = await KubernetesNode.start({
      ...{ secrets: this.#secrets, ...options },
      changes: [
        ['7070', String(await freePort())],
        ['nats://nats.dormouse.svc:4222', this.#nats.url],
        ['value: "3"', 'value: "1"'],
      ],
    })
    this.#nodes.push(node)
    await node.startPod()
    this.#key ||= JSON.parse(await readFile(join(node.dataDir, 'client.json'), 'utf8')).key
    return node
  }

  // biome-ignore lint/suspicious/noExplicitAny: tests compare answers, they do not build on them
  async call(node: KubernetesNode, path: string, json?: object): Promise<any> {
    const headers = { authorization: `Bearer ${this.#key}`, 'content-type': 'application/json' }
    const options = { method: json ? 'POST' : 'GET', headers, ca: this.#ca }
    const text = await new Promise<string>((resolve, reject) => {
      request(`${node.url}/v1/${path}`, options, (response) => {
        const parts: Buffer[] = []
        response.on('data', (data: Buffer) => parts.push(data))
        response.once('end', () => {
          const body = Buffer.concat(parts).toString()
          if ((response.statusCode ?? 500) < 300) resolve(body)
          else reject(new Error(`${path}: ${body}`))
        })
      })
        .once('error', reject)
        .end(json && JSON.stringify(json))
    })
    return JSON.parse(text)
  }

  async print(node: KubernetesNode, id: string, code: string): Promise<string> {
    return (await this.call(node, `sandboxes/${id}/run`, { code })).stdout
  }

  async remove(image?: Image): Promise<void> {
    await Promise.all(this.#nodes.map((node) => node.remove()))
    await image?.remove()
    await this.#nats.cleanUp()
    await rm(this.directory, { recursive: true, force: true })
  }
}

/** Sandboxes of `one` outlive its pods, and move to the pod of `two`. */
async function outlivePods(around: Surroundings, one: KubernetesNode, two: KubernetesNode): Promise<void> {
  const { call, print } = { call: around.call.bind(around), print: around.print.bind(around) }
  const { id } = await call(one, 'sandboxes', {})
  const { id: sleeper } = await call(one, 'sandboxes', {})
  await print(one, id, 'value = 42')
  await print(one, sleeper, 'value = 43')
  await call(one, `sandboxes/${sleeper}/standby`, { tier: 'stored' })

  await one.endPod('SIGKILL')
  expect(await one.probe('/healthz')).toBe(false)
  await one.startPod()
  expect(await call(one, `sandboxes/${id}`)).toMatchObject({ state: 'running' })
  expect(await print(one, id, 'print(value)')).toBe('42\n')
  expect(await print(one, sleeper, 'print(value)')).toBe('43\n')

  await one.endPod('SIGTERM')
  await one.startPod()
  expect(await call(one, `sandboxes/${id}`)).toMatchObject({ state: 'standby' })
  expect(await print(one, id, 'print(value)')).toBe('42\n')

  const { items } = await call(two, 'nodes')
  const { id: other } = items.find(({ isSelf }: { isSelf: boolean }) => isSelf)
  expect(items.map(({ address }: { address: string }) => address).sort()).toEqual([one.url, two.url].sort())
  expect(await call(one, `sandboxes/${id}/move`, { node: other })).toMatchObject({ sandboxId: id })
  expect(await print(two, id, 'print(value)')).toBe('42\n')
}

describe('pods of the Kubernetes manifest', () => {
  let around: Surroundings
  let one: KubernetesNode
  let two: KubernetesNode

  beforeAll(async () => {
    around = await Surroundings.make()
    one = await around.startNode(FILES_OF_THIS_MACHINE)
    two = await around.startNode(FILES_OF_THIS_MACHINE)
  })
  afterAll(() => around?.remove())

  test('sandboxes outlive a pod that is killed and one that is replaced, and move to another node', async () => {
    await outlivePods(around, one, two)
  })

  test('the command line in the container finds its server', async () => {
    const { items } = JSON.parse(await one.exec('/opt/dormouse/dormouse', 'nodes', '--json'))
    expect(items).toMatchObject([{ state: 'alive' }, { state: 'alive' }])
  })
})

const whyNot = isLarge
  ? hasBuildah
    ? undefined
    : 'buildah is not installed'
  : 'DORMOUSE_TEST_LARGE=1 runs it'

// Skip: it downloads half of a gigabyte and builds for minutes.
describe.skipIf(whyNot !== undefined)(`the image of deploy/Dockerfile${whyNot ? `: ${whyNot}` : ''}`, () => {
  let around: Surroundings
  let image: Image

  beforeAll(async () => {
    around = await Surroundings.make()
    image = await buildImage(around.directory)
  }, BUILD_TIMEOUT_MS)
  afterAll(() => around?.remove(image))

  test(
    'its pod sets up an empty node, and sandboxes outlive it and move to a host with other files',
    async () => {
      const one = await around.startNode({ rootfs: image.rootfs, besides: [], prepare: writeSettings })
      const two = await around.startNode(FILES_OF_THIS_MACHINE)
      await outlivePods(around, one, two)
    },
    BUILD_TIMEOUT_MS,
  )
})
