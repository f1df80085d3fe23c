import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { hashFiles, hashOf } from '../hash-inputs.mjs'

/**
 * @param {string} file a template description
 * @param {{ id: string, title: string }} names
 * @returns {import('../run-steps.mjs').Step}
 */
export function templateStep(file, { id, title }) {
  return {
    id,
    title,
    scope: 'data',
    hint: 'Check the network and the description file, then run this again.',
    inputs: ({ repoDir }) =>
      hashOf(
        process.arch,
        existsSync(file) ? readFileSync(file, 'utf8') : '',
        hashFiles(join(repoDir, 'packages/engine-linux/src/template'), isSource),
      ),
    async isInPlace({ dataDir }) {
      const { findTemplate, readTemplateDescription, templateHash } = await import(
        '@dormouse/engine-linux/setup'
      )
      const description = await readTemplateDescription(file)
      const template = await findTemplate(dataDir, description.name)
      return (
        template?.hash === templateHash(description) && existsSync(join(template.rootfs, 'usr/bin/python3'))
      )
    },
    async run({ report, signal }, { dataDir }) {
      const { buildTemplate, readTemplateDescription } = await import('@dormouse/engine-linux/setup')
      await buildTemplate({ description: await readTemplateDescription(file), dataDir, report, signal })
    },
  }
}

/** @param {string} path */
function isSource(path) {
  return path.endsWith('.ts') && !path.endsWith('.test.ts')
}
