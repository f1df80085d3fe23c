import { posix } from 'node:path'
import { longFunctions, longPythonFunctions } from './function-length.ts'
import { longLines } from './line-length.ts'
import { dependenciesExplained, importsAgree } from './package-imports.ts'
import { unusedExports } from './unused-exports.ts'

/** The rules of STYLE that a machine can check. Each takes a file and says what is wrong with it. */
export interface SourceFile {
  readonly path: string
  readonly text: string
}

type Rule = (file: SourceFile) => string[]
type RuleOfTree = (files: readonly SourceFile[]) => string[]

const MAX_LINES = 400

/** Imports point inward: a package may use those to its left, and nothing else of ours. */
const PACKAGES = [
  'async',
  'contracts',
  'sdk',
  'mcp',
  'page',
  'engine',
  'cluster',
  'guest',
  'engine-linux',
  'engine-microvm',
  'egress',
  'e2b',
  'server',
  'cli',
]
/**
 * Packages that use fewer than they could: egress gets descriptors and policies, and knows neither burrows nor
 * sandboxes.
 */
const ONLY: Record<string, readonly string[]> = {
  egress: ['async', 'contracts'],
  cluster: ['async', 'contracts'],
  e2b: ['async', 'contracts', 'engine'],
}
/**
 * Folders and root files of a package, lowest first. A file may import from its own folder and from those before it;
 * unit tests may import anything.
 */
export const LAYERS: Record<string, readonly string[]> = {
  'packages/engine-linux/src': [
    'native-programs.ts',
    'host',
    'arrival',
    'process',
    'network',
    'cgroup',
    'packages',
    'template',
    'runtime',
    'criu',
    'image',
    'volume',
    'image-thread',
    'guest-tools.ts',
    'storage',
    'burrow',
    'snapshot',
    'oci',
    'linux-capabilities.ts',
    'linux-engine.ts',
    'prepare-template.ts',
    'index.ts',
    'for-engines.ts',
    'doctor',
    'setup.ts',
  ],
  'packages/engine-microvm/src': [
    'native-programs.ts',
    'link',
    'host',
    'storage',
    'qemu',
    'template',
    'microvm-host.ts',
    'burrow',
    'snapshot',
    'adopt-burrows.ts',
    'open-host.ts',
    'microvm-engine.ts',
    'index.ts',
  ],
  'packages/server/src': [
    'version.ts',
    'log-lines.ts',
    'log.ts',
    'store',
    'clock',
    'data-directory',
    'host',
    'config',
    'access',
    'usage',
    'metrics',
    'ports',
    'network',
    'secrets',
    'volumes',
    'templates',
    'scrub',
    'sandbox',
    'runs',
    'deployments',
    'fleet',
    'jobs',
    'schedules',
    'webhooks',
    'cluster',
    'api',
    'ssh',
    'mcp',
    'e2b',
    'composition',
    'index.ts',
  ],
}
/** The composition root is the one place of the outer packages that names a concrete engine. */
const NAMES_AN_ENGINE = /^packages\/(server|cli)\/src\/(composition|local)\//
/** The files of the SDK that browsers do not load. */
const SDK_ON_NODE = /^packages\/sdk\/src\/(address\/local-server|local-files\/node-files)\.ts$/

const BANNED_NAMES = /(^|\/)(utils?|helpers?|types|common|misc|shared)\.(ts|mjs|py|c|h)$/
// Split so that this file does not break its own rule.
const ENV = ['process', 'env'].join('.')
const ENV_ALLOWED =
  /^(packages\/server\/src\/config\/|packages\/sdk\/src\/address\/|packages\/guest\/node\/|setup\/|tests\/|bench\/)/
const SKIP = /\b(test|it|describe)(\.\w+)*\.(skip|only|todo|skipIf|runIf|fails)\b/
const SKIP_REASON = /\/\/ Skip: \w+/
const RETRY = /\bretry: (\{|[1-9])/
const RETRY_REASON = /\/\/ Retry: \w+/
const MACHINE_PATH = new RegExp(['/work', '/(main|shared|wt)'].join(''))

/** Vitest loads its default export. */
const WANTED_BY_VITEST = /(\.config\.ts|-reporter\.mjs)$/

export const broken: Record<string, Rule> = {
  'no file is longer than 400 lines': ({ path, text }) => {
    const lines = text.split('\n').length - 1
    return isCode(path) && lines > MAX_LINES ? [`${path}: ${lines} lines`] : []
  },

  'imports point inward': ({ path, text }) => {
    const from = /^packages\/([^/]+)\/src\//.exec(path)?.[1]
    if (from === undefined) return []
    const used = [...text.matchAll(/from '@dormouse\/([\w-]+)/g)].map((match) => match[1] ?? '')
    const allowed = ONLY[from] ?? PACKAGES.slice(0, PACKAGES.indexOf(from))
    const outward = used.filter((name) => !allowed.includes(name))
    const across = [...text.matchAll(/from '((?:\.\.\/)+packages\/[^']+)'/g)].map((match) => match[1])
    return [...outward, ...across].map((name) => `${path} imports ${name}`)
  },

  'folders import only the folders below them': ({ path, text }) => {
    const root = Object.keys(LAYERS).find((directory) => path.startsWith(`${directory}/`))
    if (root === undefined || path.endsWith('.test.ts') || path.includes('/testing/')) return []
    const heightOf = (file: string) => LAYERS[root]?.indexOf(file.split('/')[0] ?? '') ?? -1
    const own = path.slice(root.length + 1)
    if (heightOf(own) === -1) return [`${path} is in no layer`]
    return [...text.matchAll(/from '(\.[^']+)'/g)]
      .map((match) => posix.relative(root, posix.join(posix.dirname(path), match[1] ?? '')))
      .filter((target) => heightOf(target) > heightOf(own))
      .map((target) => `${path} imports ${target}`)
  },

  'the SDK depends on nothing, not even for its types, but for adapters of frameworks': ({ path, text }) => {
    if (!/^packages\/sdk\/src\/(?!adapters\/)/.test(path) || path.endsWith('.test.ts')) return []
    const imports = [...text.matchAll(/^(?:import|export) [^;'"]*?from '([^']+)'/gm)]
    const foreign = imports.map((match) => match[1] ?? '').filter((name) => !/^[.#]/.test(name))
    return foreign
      .filter((name) => !(name.startsWith('node:') && SDK_ON_NODE.test(path)))
      .map((name) => `${path} imports ${name}`)
  },

  'only the composition root names a concrete engine': ({ path, text }) =>
    /^packages\/(server|cli)\/src\//.test(path) && !NAMES_AN_ENGINE.test(path) && /\bLinuxEngine\b/.test(text)
      ? [path]
      : [],

  'the environment is read in the config only': ({ path, text }) =>
    isScript(path) && !ENV_ALLOWED.test(path) && text.includes(ENV) ? [path] : [],

  'the Python kernel runs on Python 3.9': ({ path, text }) => {
    if (!/^packages\/guest\/python\/dormouse_(kernel\/.*|immortal)\.py$/.test(path)) return []
    const isEvaluated = !text.includes('from __future__ import annotations')
    const newer = isEvaluated ? /isinstance\(.* \| |(:|->) [\w.[\], ]+ \| \w/ : /isinstance\(.* \| /
    return newer.test(text) ? [path] : []
  },

  'no file is named after what it is not': ({ path }) => (BANNED_NAMES.test(path) ? [path] : []),

  'index files list what they export': ({ path, text }) =>
    isScript(path) && /^export \*/m.test(text) ? [path] : [],

  'no default exports': ({ path, text }) =>
    isScript(path) && !WANTED_BY_VITEST.test(path) && /^export default/m.test(text) ? [path] : [],

  'a skipped test says why on the line above': ({ path, text }) => {
    if (!path.endsWith('.test.ts') && !path.includes('/contract/')) return []
    const lines = text.split('\n')
    return lines.flatMap((line, index) =>
      SKIP.test(line) && !SKIP_REASON.test(lines[index - 1] ?? '') ? [`${path}:${index + 1}`] : [],
    )
  },

  'a retried test says why on the line above': ({ path, text }) => {
    if (!path.endsWith('.test.ts') && path !== 'vitest.config.ts') return []
    const lines = text.split('\n')
    return lines.flatMap((line, index) =>
      RETRY.test(line) && !RETRY_REASON.test(lines[index - 1] ?? '') ? [`${path}:${index + 1}`] : [],
    )
  },

  'functions have at most 60 lines': longFunctions,

  'comments and prose have at most 120 columns': longLines,

  'the compiler is never silenced': ({ path, text }) =>
    isScript(path) && new RegExp(['@ts-', '(ignore|nocheck)'].join('')).test(text) ? [path] : [],

  'no path of a developer’s machine': ({ path, text }) => (MACHINE_PATH.test(text) ? [path] : []),
}

/** Rules that need more than one file to judge. */
export const brokenByTree: Record<string, RuleOfTree> = {
  'each package declares what it imports, and imports what it declares': importsAgree,

  'every dependency is explained': dependenciesExplained,

  'functions of Python have at most 60 lines': longPythonFunctions,

  'what is exported is used by another file': unusedExports,
}

function isCode(path: string): boolean {
  return /\.(tsx?|css|mjs|py|c|h|sh)$/.test(path) || path === 'dormouse'
}

function isScript(path: string): boolean {
  return /\.(tsx?|mjs)$/.test(path)
}
