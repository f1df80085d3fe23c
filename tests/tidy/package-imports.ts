import type { SourceFile } from './rules.ts'

interface Manifest {
  readonly name: string
  readonly dependencies?: Record<string, string>
  readonly devDependencies?: Record<string, string>
  readonly peerDependencies?: Record<string, string>
}

/** Not part of what a package runs: tests, and what only tests load. */
const FOR_TESTS = /\.test\.ts$|\.inside\.ts$|\/(testing|contract)\//
/** Files of the package itself, and what Node has. */
const OWN = /^(\.|#|node:)/
const IMPORT =
  /^(?:import|export|\}) ?.*?\bfrom '([^']+)'|^import '([^']+)'|\bimport\('([^']+)'\)|\bresolve\('([^']+)'\)/gm

/** Every package declares what its sources import, and imports what it declares. */
export function importsAgree(files: readonly SourceFile[]): string[] {
  const manifests = files.filter(({ path }) => /^packages\/[^/]+\/package\.json$/.test(path))
  return manifests.flatMap(({ path, text }) => {
    const folder = path.slice(0, -'package.json'.length)
    const { name, ...manifest } = JSON.parse(text) as Manifest
    const dependencies = { ...manifest.dependencies, ...manifest.peerDependencies }
    const sources = files.filter(
      (file) => file.path.startsWith(`${folder}src/`) && !FOR_TESTS.test(file.path),
    )
    const used = new Set(sources.flatMap(({ text }) => imported(text)).filter((one) => one !== name))
    const undeclared = [...used].filter((one) => dependencies[one] === undefined)
    const unused = Object.keys(dependencies).filter((one) => !used.has(one))
    return [
      ...undeclared.map((one) => `${path} does not declare ${one}`),
      ...unused.map((one) => `${path} declares ${one}, which no source imports`),
    ]
  })
}

const DEPENDENCIES = 'docs/dependencies.md'
/** They bring only the types of packages that have a line. */
const TYPES = /^@types\//

/** Every dependency has a line that says why it is there. A line may name a whole scope: `@scope/*`. */
export function dependenciesExplained(files: readonly SourceFile[]): string[] {
  const text = files.find(({ path }) => path === DEPENDENCIES)?.text ?? ''
  const words = new Set(text.split(/[\s,()|`]+/))
  const isExplained = (name: string) => words.has(name) || words.has(`${name.split('/')[0]}/*`)
  return files
    .filter(({ path }) => /^(packages\/[^/]+\/)?package\.json$/.test(path))
    .flatMap(({ path, text }) => {
      const { dependencies, devDependencies } = JSON.parse(text) as Manifest
      return Object.keys({ ...dependencies, ...devDependencies })
        .filter((name) => !isOurs(name) && !TYPES.test(name) && !isExplained(name))
        .map((name) => `${path} depends on ${name}, which ${DEPENDENCIES} does not explain`)
    })
}

function isOurs(name: string): boolean {
  return name === 'dormouse' || name.startsWith('@dormouse/')
}

function imported(text: string): string[] {
  const specifiers = [...text.matchAll(IMPORT)].map(
    (match) => match.slice(1).find((one) => one !== undefined) ?? '',
  )
  return specifiers.filter((one) => !OWN.test(one)).map(packageOf)
}

function packageOf(specifier: string): string {
  return specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/')
}
