import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/**
 * The version that all packages share. Throws if one differs.
 * @param {string} repoDir
 */
export function requireOneVersion(repoDir) {
  const versions = new Map(
    readdirSync(join(repoDir, 'packages')).map((name) => {
      const path = `packages/${name}/package.json`
      return [path, String(JSON.parse(readFileSync(join(repoDir, path), 'utf8')).version)]
    }),
  )
  const python = readFileSync(join(repoDir, 'python/pyproject.toml'), 'utf8')
  versions.set('python/pyproject.toml', /^version = "(.*)"$/m.exec(python)?.[1] ?? 'none')
  const [version = ''] = versions.values()
  const others = [...versions].filter(([, each]) => each !== version)
  if (others.length > 0)
    throw new Error(`Versions differ from ${version}: ${others.map((each) => each.join(' ')).join(', ')}`)
  return version
}
