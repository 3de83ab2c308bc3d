import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/**
 * An HDFS of a name node and a data node. It stores below the directory that is its argument, writes {@code core-site.xml}
 * of its clients there, prints READY, and ends with its standard input.
 */
public class MiniHdfs {
  public static void main(String[] arguments) {
    try {
      run(Path.of(arguments[0]));
    } catch (Throwable error) {
      error.printStackTrace();
    }
    Runtime.getRuntime().halt(0); // its threads would go on
  }

  private static void run(Path directory) throws Exception {
    Configuration of = new Configuration();
    of.set(MiniDFSCluster.HDFS_MINIDFS_BASEDIR, directory.resolve("hdfs").toString());
    try (MiniDFSCluster hdfs = new MiniDFSCluster.Builder(of).numDataNodes(1).build()) {
      hdfs.waitActive();
      Configuration forClients = new Configuration(false);
      forClients.set("fs.defaultFS", hdfs.getURI().toString());
      try (OutputStream file = Files.newOutputStream(directory.resolve("core-site.xml"))) {
        forClients.writeXml(file);
      }
      System.out.println("READY");
      System.in.transferTo(OutputStream.nullOutputStream());
    }
  }
}
