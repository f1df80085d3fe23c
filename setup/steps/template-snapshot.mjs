import { hashOf } from '../hash-inputs.mjs'

/**
 * Boots a template once, imports its preloaded modules and takes the snapshot that sandboxes start from.
 * @param {string} name
 * @returns {import('../run-steps.mjs').Step}
 */
export function templateSnapshotStep(name) {
  return {
    id: `template-snapshot-${name}`,
    title: `Snapshot of template "${name}"`,
    scope: 'data',
    hint: 'Run `./dormouse doctor` to see what this host lacks.',
    // The build, the guest, CRIU and the kernel are part of the snapshot's name, so `isInPlace` alone decides.
    inputs: () => hashOf(name),
    async isInPlace({ dataDir }) {
      const { isTemplatePrepared } = await import('@dormouse/engine-linux/setup')
      return isTemplatePrepared(dataDir, name)
    },
    async run(_control, { dataDir }) {
      const { prepareTemplate } = await import('@dormouse/engine-linux/setup')
      await prepareTemplate(dataDir, name)
    },
  }
}
