// The runner of @vladmandic/human, with its default detector, mesh and age model; what has no say in the age is off.

const fs = require('fs');
const path = require('path');
const { Human } = require('./node_modules/@vladmandic/human/dist/human.node-wasm.js'); // it does not export this build
const { run } = require('./runner.cjs');

const PACKAGES = path.join(__dirname, 'node_modules');

// tfjs reads models over HTTP only, unless it is told how to read files.
function fromDisk(url) {
  if (!String(url).startsWith('file://')) return null;
  const file = String(url).slice('file://'.length);
  const load = async () => {
    const { weightsManifest, ...model } = JSON.parse(fs.readFileSync(file, 'utf8'));
    const parts = weightsManifest.flatMap((group) => group.paths);
    const bytes = Buffer.concat(parts.map((part) => fs.readFileSync(path.join(path.dirname(file), part))));
    const weightData = new Uint8Array(bytes).buffer; // a buffer of their own: node's small ones share one
    return { ...model, weightSpecs: weightsManifest.flatMap((group) => group.weights), weightData };
  };
  return { load };
}

run(async (tf) => {
  tf.io.registerLoadRouter(fromDisk);
  const off = { enabled: false };
  const human = new Human({
    backend: 'wasm',
    wasmPath: path.join(PACKAGES, '@tensorflow/tfjs-backend-wasm/dist/'),
    modelBasePath: `file://${path.join(PACKAGES, '@vladmandic/human/models/')}`,
    cacheSensitivity: 0, // photos are no video: nothing is kept from one to the next
    filter: off,
    gesture: off,
    body: off,
    hand: off,
    object: off,
    segmentation: off,
    face: { detector: { maxDetected: 10 }, iris: off, emotion: off },
  });
  await human.load();
  return async (photo) => {
    const { face: faces } = await human.detect(photo);
    return faces.map((face) => ({ area: face.box[2] * face.box[3], age: face.age ?? 0 })); // it leaves out an age of 0
  };
});
