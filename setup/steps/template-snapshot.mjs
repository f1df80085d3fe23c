import { hashOf } from '../hash-inputs.mjs'

/**
 * Boots a template once, imports what it is to preload and saves it: sandboxes start from there.
 * @param {string} name
 * @returns {import('../run-steps.mjs').Step}
 */
export function templateSnapshotStep(name) {
  return {
    id: `template-snapshot-${name}`,
    title: `Snapshot of template "${name}"`,
    scope: 'data',
    hint: 'Run `./dormouse doctor`: it says what this host lacks.',
    // What it depends on (the build, the guest, CRIU, the kernel) is part of its name: only looking tells.
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
