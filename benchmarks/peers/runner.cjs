// What the two peers in JavaScript share: names of photos on stdin, a JSON line for each on stdout.
// Their usual backend, tfjs-node, downloads a library when it is installed; wasm comes with the package. In node it has
// SIMD and one thread (WASM_HAS_MULTITHREAD_SUPPORT is false there).

const fs = require('fs');
const sharp = require('sharp');
const tf = require('@tensorflow/tfjs');
require('@tensorflow/tfjs-backend-wasm');

sharp.concurrency(1);

async function decode(name) {
  const picture = sharp(name).rotate().toColourspace('srgb').removeAlpha(); // upright, as agecli sees it
  const { data, info } = await picture.raw().toBuffer({ resolveWithObject: true });
  return tf.tensor3d(new Uint8Array(data), [info.height, info.width, 3], 'int32');
}

// `load` gives a function from a photo, (H, W, 3), to its faces: [{ area, age }].
async function run(load) {
  await tf.setBackend('wasm');
  await tf.ready();
  const look = await load(tf);
  for (const name of fs.readFileSync(0, 'utf8').split('\n').filter(Boolean)) {
    const photo = await decode(name).catch(() => null); // one that can't be read has no face
    const faces = photo ? await look(photo) : [];
    tf.dispose(photo);
    const largest = faces.reduce((best, face) => (best && best.area >= face.area ? best : face), null);
    process.stdout.write(`${JSON.stringify({ source: name, age: largest ? largest.age : null })}\n`);
  }
}

module.exports = { run };
