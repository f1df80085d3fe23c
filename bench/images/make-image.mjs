import { execFileSync, spawn } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

const TYPE = 'application/vnd.oci.image'
const FILE_BYTES = 65_536

export function run(...argv) {
  return execFileSync(argv[0], argv.slice(1), { stdio: ['ignore', 'pipe', 'inherit'], maxBuffer: 1e9 })
}

/** Debian's docker-registry on loopback. */
export async function startRegistry(work, port) {
  const host = `127.0.0.1:${port}`
  const storage = { filesystem: { rootdirectory: join(work, 'registry') } }
  const config = { version: 0.1, log: { level: 'error' }, storage, http: { addr: host } }
  writeFileSync(join(work, 'config.yml'), JSON.stringify(config))
  const child = spawn('docker-registry', ['serve', join(work, 'config.yml')], { stdio: 'ignore' })
  while (!(await fetch(`http://${host}/v2/`).catch(() => undefined))) await sleep(20)
  const conf = join(work, 'registries.conf')
  writeFileSync(conf, `[[registry]]\nlocation = "${host}"\ninsecure = true\n`)
  return { child, host, conf }
}

/** Half of the content is random, half is text, in files of 64 KB. Returns an archive. */
export function makeLayer(work, name, megabytes) {
  const directory = join(work, name)
  mkdirSync(join(directory, name), { recursive: true })
  for (let file = 0; file < megabytes * 16; file += 1) {
    const content =
      file % 2 === 0 ? randomBytes(FILE_BYTES) : Buffer.alloc(FILE_BYTES, `line ${file} of ${name}\n`)
    writeFileSync(join(directory, name, `file-${file}`), content)
  }
  return packLayer(work, directory)
}

/** A static busybox: enough for steps and for a program to start. */
export function makeBusyboxLayer(work) {
  const directory = join(work, 'busybox')
  mkdirSync(join(directory, 'bin'), { recursive: true })
  run('cp', '/bin/busybox', join(directory, 'bin/busybox'))
  for (const name of ['sh', 'httpd', 'cat', 'echo', 'sleep'])
    run('ln', '-s', 'busybox', join(directory, 'bin', name))
  return packLayer(work, directory)
}

function packLayer(work, directory) {
  const archive = join(mkdtempSync(join(work, 'archive-')), 'layer.tar')
  run('tar', '-cf', archive, '--owner=0', '--group=0', '-C', directory, '.')
  rmSync(directory, { recursive: true })
  return archive
}

/** Makes an OCI layout of these archives and pushes it. Returns the compressed size. */
export function pushImage(work, reference, archives) {
  const directory = mkdtempSync(join(work, 'layout-'))
  mkdirSync(join(directory, 'blobs/sha256'), { recursive: true })
  const put = (content, mediaType) => {
    const hex = createHash('sha256').update(content).digest('hex')
    writeFileSync(join(directory, 'blobs/sha256', hex), content)
    return { mediaType, digest: `sha256:${hex}`, size: content.length }
  }
  const digest = (path) => `sha256:${createHash('sha256').update(readFileSync(path)).digest('hex')}`
  const architecture = process.arch === 'x64' ? 'amd64' : 'arm64'
  const rootfs = { type: 'layers', diff_ids: archives.map(digest) }
  const configuration = { architecture, os: 'linux', config: { Env: ['PATH=/bin'] }, rootfs }
  const layers = archives.map((path) => put(run('gzip', '-1', '-c', path), `${TYPE}.layer.v1.tar+gzip`))
  const config = put(Buffer.from(JSON.stringify(configuration)), `${TYPE}.config.v1+json`)
  const manifest = { schemaVersion: 2, mediaType: `${TYPE}.manifest.v1+json`, config, layers }
  const described = put(Buffer.from(JSON.stringify(manifest)), manifest.mediaType)
  writeFileSync(join(directory, 'index.json'), JSON.stringify({ schemaVersion: 2, manifests: [described] }))
  writeFileSync(join(directory, 'oci-layout'), '{"imageLayoutVersion":"1.0.0"}')
  const destination = `docker://${reference}`
  run('skopeo', '--insecure-policy', 'copy', '--dest-tls-verify=false', `oci:${directory}`, destination)
  rmSync(directory, { recursive: true })
  return layers.reduce((sum, { size }) => sum + size, 0)
}

/** What one would do by hand: `skopeo copy`, then unpack every layer. */
export function copyAndUnpack(work, reference) {
  const into = mkdtempSync(join(work, 'control-'))
  const layout = join(into, 'layout')
  run(
    'skopeo',
    '--insecure-policy',
    'copy',
    '--src-tls-verify=false',
    `docker://${reference}`,
    `oci:${layout}:x`,
  )
  mkdirSync(join(into, 'root'))
  const blob = (digest) => join(layout, 'blobs/sha256', digest.slice('sha256:'.length))
  const { manifests } = JSON.parse(readFileSync(join(layout, 'index.json'), 'utf8'))
  const { layers } = JSON.parse(readFileSync(blob(manifests[0].digest), 'utf8'))
  for (const { digest } of layers) run('tar', '-xzf', blob(digest), '-C', join(into, 'root'))
  return () => rmSync(into, { recursive: true })
}
