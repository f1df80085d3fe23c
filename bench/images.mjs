// Pulls an image of 300 MB in 8 layers from a registry on loopback and compares it with `skopeo copy` plus unpacking.
// Run as root: node bench/images.mjs [MEGABYTES]. Needs docker-registry and skopeo, which `./dormouse test` installs.
import { execFileSync, spawn } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { newSandboxId } from '@dormouse/contracts'
import { LinuxEngine } from '@dormouse/engine-linux'

const [megabytes = '300'] = process.argv.slice(2)
const LAYERS = 8
const ROUNDS = 3
const dataDir = process.env.DORMOUSE_DATA ?? '/var/lib/dormouse'
const work = mkdtempSync(join(tmpdir(), 'dormouse-bench-images-'))
const port = 17_599
const host = `127.0.0.1:${port}`
const run = (...argv) =>
  execFileSync(argv[0], argv.slice(1), { stdio: ['ignore', 'pipe', 'inherit'], maxBuffer: 1e9 })

const registry = await startRegistry()
try {
  const conf = join(work, 'registries.conf')
  writeFileSync(conf, `[[registry]]\nlocation = "${host}"\ninsecure = true\n`)
  const layout = makeLayout(
    'first',
    Array.from({ length: LAYERS }, (_, at) => makeLayer(at, Number(megabytes) / LAYERS)),
  )
  run(
    'skopeo',
    '--insecure-policy',
    'copy',
    '--dest-tls-verify=false',
    `oci:${layout}`,
    `docker://${host}/big:1`,
  )
  const control = []
  const cold = []
  const warm = []
  for (let round = 0; round < ROUNDS; round += 1) {
    control.push(timed(() => copyAndUnpack()))
    const stateDir = mkdtempSync(join(work, 'state-'))
    await using engine = await LinuxEngine.open({ dataDir, stateDir })
    const request = () => ({
      ...{ image: `${host}/big:1`, registriesConf: conf, sandboxId: newSandboxId() },
      ...{ maxBytes: 1e10, maxFiles: 1e6 },
    })
    cold.push(await timedAsync(() => engine.importImage(request())))
    warm.push(await timedAsync(() => engine.importImage(request())))
  }
  const ratio = median(cold) / median(control)
  console.log(`skopeo copy and tar:   ${show(control)}`)
  console.log(`import, nothing here:  ${show(cold)}   ${ratio.toFixed(2)} times that (goal: 1.5)`)
  console.log(`import, layers here:   ${show(warm)}   (goal: 1 s)`)
} finally {
  registry.kill('SIGKILL')
  rmSync(work, { recursive: true, force: true })
}

function copyAndUnpack() {
  const into = mkdtempSync(join(work, 'control-'))
  run(
    'skopeo',
    '--insecure-policy',
    'copy',
    '--src-tls-verify=false',
    `docker://${host}/big:1`,
    `oci:${into}/layout:x`,
  )
  mkdirSync(join(into, 'root'))
  const { manifests } = JSON.parse(readFileSync(join(into, 'layout/index.json'), 'utf8'))
  const blob = (digest) => join(into, 'layout/blobs/sha256', digest.slice(7))
  const { layers } = JSON.parse(readFileSync(blob(manifests[0].digest), 'utf8'))
  for (const { digest } of layers) run('tar', '-xzf', blob(digest), '-C', join(into, 'root'))
  rmSync(into, { recursive: true })
}

/** Half of it is random, half is text, in files of 64 KB. */
function makeLayer(at, size) {
  const directory = join(work, `layer-${at}`)
  mkdirSync(join(directory, `data-${at}`), { recursive: true })
  for (let file = 0; file < size * 16; file += 1) {
    const content =
      file % 2 === 0 ? randomBytes(65_536) : Buffer.alloc(65_536, `line ${file} of layer ${at}\n`)
    writeFileSync(join(directory, `data-${at}`, `file-${file}`), content)
  }
  const archive = join(work, `layer-${at}.tar`)
  run('tar', '-cf', archive, '-C', directory, '.')
  rmSync(directory, { recursive: true })
  return archive
}

function makeLayout(name, archives) {
  const directory = join(work, name)
  mkdirSync(join(directory, 'blobs/sha256'), { recursive: true })
  const put = (content, mediaType) => {
    const hex = createHash('sha256').update(content).digest('hex')
    writeFileSync(join(directory, 'blobs/sha256', hex), content)
    return { mediaType, digest: `sha256:${hex}`, size: content.length }
  }
  const diffIds = archives.map(
    (path) => `sha256:${createHash('sha256').update(readFileSync(path)).digest('hex')}`,
  )
  const architecture = process.arch === 'x64' ? 'amd64' : 'arm64'
  const config = { architecture, os: 'linux', config: {}, rootfs: { type: 'layers', diff_ids: diffIds } }
  const type = 'application/vnd.oci.image'
  const manifest = {
    schemaVersion: 2,
    mediaType: `${type}.manifest.v1+json`,
    config: put(Buffer.from(JSON.stringify(config)), `${type}.config.v1+json`),
    layers: archives.map((path) => put(run('gzip', '-c', path), `${type}.layer.v1.tar+gzip`)),
  }
  const described = put(Buffer.from(JSON.stringify(manifest)), `${type}.manifest.v1+json`)
  writeFileSync(join(directory, 'index.json'), JSON.stringify({ schemaVersion: 2, manifests: [described] }))
  writeFileSync(join(directory, 'oci-layout'), '{"imageLayoutVersion":"1.0.0"}')
  const bytes = readdirSync(join(directory, 'blobs/sha256')).map(
    (file) => statSync(join(directory, 'blobs/sha256', file)).size,
  )
  console.log(
    `image: ${LAYERS} layers, ${megabytes} MB, ${Math.round(bytes.reduce((a, b) => a + b) / 1e6)} MB compressed`,
  )
  return directory
}

async function startRegistry() {
  const config = {
    version: 0.1,
    log: { level: 'error' },
    storage: { filesystem: { rootdirectory: join(work, 'registry') } },
    http: { addr: host },
  }
  writeFileSync(join(work, 'config.yml'), JSON.stringify(config))
  const child = spawn('docker-registry', ['serve', join(work, 'config.yml')], { stdio: 'ignore' })
  while (!(await fetch(`http://${host}/v2/`).catch(() => undefined))) await sleep(20)
  return child
}

function timed(work) {
  const began = performance.now()
  work()
  return performance.now() - began
}

async function timedAsync(work) {
  const began = performance.now()
  await work()
  return performance.now() - began
}

function median(values) {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)]
}

function show(values) {
  return `${(median(values) / 1000).toFixed(2)} s (${values.map((value) => (value / 1000).toFixed(2)).join(', ')})`
}
