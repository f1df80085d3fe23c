import { existsSync, readFileSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { debianPackagesStep } from '../debian-packages.mjs'
import { hashOf } from '../hash-inputs.mjs'
import { testNode } from './test-node.mjs'

const ARCHITECTURE = process.arch === 'x64' ? 'x86_64' : 'aarch64'

/** What only tests need, so `up` does not install it. */
const testSystemPackages = debianPackagesStep({
  id: 'test-system-packages',
  title: 'System packages of the tests',
  packages: [
    // For the tests of the guard: an allocator that depends on it.
    ['libjemalloc2', `/usr/lib/${ARCHITECTURE}-linux-gnu/libjemalloc.so.2`],
    // For the tests of SSH.
    ['rsync', 'rsync'],
    // For the tests of images: a registry, what pulls from it, and programs that need no library or another libc.
    ['docker-registry', 'docker-registry'],
    ['skopeo', 'skopeo'],
    ['busybox-static', '/bin/busybox'],
    ['musl-tools', 'musl-gcc'],
    // For the tests of the Python SDK: what it needs, and what builds it.
    ['python3-httpx', '/usr/lib/python3/dist-packages/httpx'],
    ['python3-websockets', '/usr/lib/python3/dist-packages/websockets'],
    ['python3-hatchling', '/usr/lib/python3/dist-packages/hatchling'],
    ['python3-pip', '/usr/lib/python3/dist-packages/pip'],
    // For the tests of virtual machines: container programs that run inside.
    ['bubblewrap', 'bwrap'],
    ['crun', 'crun'],
    // For the tests of clusters.
    ['nats-server', 'nats-server'],
    // For the tests of connections that outlive a sleep.
    ['postgresql', '/usr/lib/postgresql'],
    // The server is this program under another name; its own package would only add a service.
    ['redis-tools', 'redis-check-rdb'],
    // For the tests of volumes on XFS.
    ['xfsprogs', 'mkfs.xfs'],
    // For the tests of the page.
    ['chromium', 'chromium'],
  ],
  prepare: withoutCluster,
})

/** PostgreSQL's package makes a database that the host would start at every boot. The tests make their own. */
async function withoutCluster() {
  const directory = '/etc/postgresql-common/createcluster.d'
  await mkdir(directory, { recursive: true })
  await writeFile(join(directory, 'dormouse.conf'), 'create_main_cluster = false\n')
}

/**
 * The npm packages in `tests/packages`: clients and frameworks of others that the tests run for real.
 * @type {import('../run-steps.mjs').Step}
 */
const testNpmPackages = {
  id: 'test-npm-packages',
  title: 'npm packages of the tests',
  scope: 'repo',
  hint: 'Check the network and the npm settings of this machine (`npm ping`), then run this again.',
  inputs: ({ repoDir }) =>
    hashOf(
      process.versions.modules,
      ['package.json', 'package-lock.json'].map((file) =>
        readFileSync(join(packagesDir(repoDir), file), 'utf8'),
      ),
    ),
  isInPlace: ({ repoDir }) => existsSync(join(packagesDir(repoDir), 'node_modules/.package-lock.json')),
  async run({ report, run }, { repoDir }) {
    await run({
      argv: ['npm', 'install', '--no-save', '--no-audit', '--no-fund', '--ignore-scripts', '--no-workspaces'],
      cwd: packagesDir(repoDir),
      onLine: (line) => {
        if (!line.startsWith('npm warn')) report({ doing: line })
      },
    })
  },
}

/** @param {string} repoDir */
function packagesDir(repoDir) {
  return join(repoDir, 'tests/packages')
}

export const TEST_STEPS = [testSystemPackages, testNpmPackages, testNode]
